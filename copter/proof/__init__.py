"""Proofs about solutions: bounds, certificates, rays, and the pricing pass that they need.

Read `certificate.py` first. Its `measured_certificate` combines the parts of a certificate.

- `pricing.py` is the pass over all columns that computes the bound. It uses `pricing_kernels.py`,
  `usage_prices.py`, and `tangents.py` for convex terms. `measure.py` is the pass over an allocation.
- `margins.py` has the price changes that inactive requests allow, and `rest.py` the contribution of these
  requests to a certificate.
- `cost_ranges.py` and `magnitudes.py` compute units of costs and typical magnitudes of rows and columns.
- `extended_precision.py` and `rigorous.py` handle rounding errors.
- `rays.py` checks rays of infeasible programs. `highs_rays.py` finds rays with HiGHS.
- `integer.py`, `whole.py` and `fixing.py` are for integral allocations.
- `general_lp.py` checks solutions of a general LP.
"""
