"""What is known of an answer: prices of all columns, bounds, certificates and rays.

Read `certificate.py` first: `measured_certificate` puts a proof together.  `pricing.py` is the pass over all
columns that the bound comes from (with `pricing_kernels.py`, `lower_envelopes.py` for requests that share
costs and usage, `usage_prices.py`, and `tangents.py` for convex terms), `measure.py` the pass over an
allocation.
`margins.py` (how far prices may move) and `rest.py` (what the others add) are for inactive requests.
`units.py` and `magnitudes.py` say what figures are relative to.  `extended_precision.py`, `loose.py` and
`rigorous.py` are for where rounding or free columns matter, `rays.py` for programs without an answer
(`highs_rays.py` finds rays that a solver lacks); `integer.py`, `whole.py` and `fixing.py` for integral ones.
`general_lp.py` judges answers of a general LP, and `highs_lp.py` those that HiGHS gives.
"""
