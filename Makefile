# Long runs that plain `pytest` leaves out.
.PHONY: fuzz soak bench
fuzz:
	pytest -m fuzz --run-long
soak:
	pytest -m soak --run-long
bench:
	pytest --benchmark-only
