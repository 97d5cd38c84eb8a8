"""Why published forms have no guarantee, in words that several methods share."""

PUBLISHED = "fairaudit.methods.published"  # where their trainers are
MEAN = (
    "divides by the realised batch size: one record shifts the mean by up to twice the noise's unit, "
    "and the batch size itself is revealed"
)
FIXED = (
    "printed for batches of a fixed size, where replacing a record moves the counts by sqrt(2) and the sum "
    "by twice the bound (here they are Poisson samples); noised counts have no floor, so"
)
