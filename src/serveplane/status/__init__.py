"""Children in, conditions out. Pure: what a service's status says, and why it is not ready, in one sentence."""
