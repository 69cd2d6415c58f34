"""Profiles: how fast a job progresses under each configuration, by how far it has come.

`base.py` comes first: a profile's levels, and what follows for every one of them from its one method,
`speeds`. Each of the others says where the figures come from: `tables.py` (measured tables and simple rules),
`goodput.py` (a throughput model for each GPU type, `throughput.py`, times statistical efficiency),
`builtin.py` (the papers' jobs by that model), `hybrid.py` (pipelines), `measured.py` (measured steps,
interpolated), `analytic.py` (a model in relative units that holds for hundreds of nodes).
"""
