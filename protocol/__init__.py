"""What is said between a client and a host: commands, command buffers, stacks, messages, and the session's core.

No input or output, no OpenGL, no threads. PROTOCOL.md beside this file is the same in words.
"""
