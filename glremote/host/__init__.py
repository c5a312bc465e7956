"""The remote side: a gateway that admits and carries, a worker process for each session, an interpreter in each."""
