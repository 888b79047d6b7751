"""One HTTP port in front of the cluster: HTTPRoutes, Ingresses and Services by host and path.

`rules` and `compile` turn the objects into a routing table (pure), `endpoints` knows where Services are,
`proxy` forwards, `status` says on the objects what became of them, `gateway` ties these to the API.
"""
