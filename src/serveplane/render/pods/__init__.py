"""What the pod webhook adds to pods of InferenceServices: models, credentials, the agent, metrics. Pure functions over a draft."""
