"""Made-up runs of operations, asked of the real API server and of the embedded one."""
