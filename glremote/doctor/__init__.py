"""The doctor: what a machine lacks to render, and why a host cannot be reached; each with the line that mends it.

Knows: nothing by itself. machine.py has the few ways in which a machine is looked at, facts.py what is seen,
findings.py and gpus.py what follows from that, and mending.py the lines; reaching.py goes to a host step by step, and
way.py has the lines that ask it anew. Nothing here changes anything, and what a driver does when it is loaded happens
in child processes.
"""
