"""The tests of moderngl's own that differ remotely, each with its reason."""

CALLS_OPENGL: dict[str, str] = {
    "test_context.py::test_clear_errors": "causes an error with PyOpenGL, in the client's own OpenGL",
    "test_debug_scopes.py::test_debug_scope_error_when_stack_underflow": "leaves a debug group with PyOpenGL, likewise",
    "test_context_refs.py::test_context_is_freed[True]": "makes a context of a glcontext object of the client's own",
    "test_context_refs.py::test_context_is_freed[False]": "makes a context of a glcontext object of the client's own",
}
"""They call OpenGL in the client's process, where there is none of this session's."""
