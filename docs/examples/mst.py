"""Synthetic tables by MST, of OpenDP and private-pgm (`pip install 'opendp[mbi]'`).

Run: fairaudit run --data people.csv --group sex --label approved --synthesizer mst:sampled

Set CUTS to what is publicly known of your columns; a number without cuts is a category. MST needs
the levels of every category to be public, too: here they are read of the rows, which its epsilon
does not cover. `rounded` is what opendp does by default.
"""

import math
from functools import partial

import opendp.prelude as dp
import polars as pl
from mbi.estimation import mirror_descent
from opendp.extras.mbi import _mst

import fairaudit

# Opendp 0.16 sets one rounding aside where it divides the budget; over many columns the sum may be
# above that, and it refuses its own queries. This sets more aside: a millionth of a millionth.
_mst.prior = lambda budget: budget * (1 - 1e-12)

CUTS = {"age": [25, 35, 45, 55, 65], "hours_per_week": [20, 35, 40, 50]}
ITERATIONS = 1000  # of the estimate, which costs no privacy
NO_NOISE = 4096.0  # rho at which the noise is far below one row


def released(table, privacy):
    """The private marginals of a table without missing values."""
    dp.enable_features("contrib")
    rho = NO_NOISE
    if privacy is not None:  # zCDP: the largest rho that gives epsilon at delta
        log = math.log(1 / privacy.delta)
        rho = (math.sqrt(log + privacy.epsilon) - math.sqrt(log)) ** 2
    data = pl.from_pandas(table).lazy()
    unit, loss = dp.unit_of(contributions=1), dp.loss_of(rho=rho)
    query = dp.Context.compositor(data=data, privacy_unit=unit, privacy_loss=loss).query(rho=rho)
    cuts = {name: CUTS[name] for name in table.columns if name in CUTS}
    keys = {name: sorted(table[name].unique()) for name in table.columns if name not in CUTS}
    mst = dp.mbi.MST(estimator=partial(estimate, iters=ITERATIONS))
    return (
        query.select(*table.columns)
        .contingency_table(keys=keys, cuts=cuts, algorithm=mst)
        .release()
    )


def estimate(domain, loss_fn, *, potentials=None, iters):
    """What opendp calls; private-pgm's own has more arguments."""
    return mirror_descent(domain, loss_fn, potentials=potentials, iters=iters)


def synthetic(table, privacy, method):
    """As many rows as there are, drawn from the marginals."""
    marginals = released(table.fillna("?"), privacy)
    made = marginals.synthesize(rows=len(table), method=method).to_pandas()
    made = made.dropna()  # noise may draw values outside of the keys, which opendp makes missing
    made = made.replace("?", None)  # what was missing in the rows
    if privacy is not None:
        made.attrs["claimed"] = fairaudit.Privacy(
            privacy.epsilon, privacy.delta, "one training row", "add or remove one row", "zCDP"
        )
    return made


def rounded(table, privacy, seed):
    """Noise and rows are drawn by opendp and mbi, which take no seed."""
    return synthetic(table, privacy, "round")


def sampled(table, privacy, seed):
    """Drawn row by row, which keeps what rounding loses."""
    return synthetic(table, privacy, "sample")


rounded.supports_no_noise = sampled.supports_no_noise = True
