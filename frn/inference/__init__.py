"""Use a model without torch: enrolment and scoring in numpy."""
