"""What `kubectl get` shows: tables, their columns, and the cells of each kind."""
