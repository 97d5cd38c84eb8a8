"""A model for release: trained as it was audited, with its evidence; and predictions of one."""
