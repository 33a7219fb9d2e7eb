-- spread: four measures of spread, of integers
SELECT b, stddev(c) AS s, stddev_pop(c) AS p, variance(c) AS v, var_pop(c) AS w FROM s GROUP BY b;

-- spread_names: other names of the same
SELECT b, std(c) AS s, stddev_samp(c) AS p, var_samp(c) AS v FROM s GROUP BY b;
-- duckdb:
SELECT b, stddev(c) AS s, stddev_samp(c) AS p, var_samp(c) AS v FROM s GROUP BY b;

-- spread_of_decimals: in units of the last digit
SELECT b, stddev(d) AS s, stddev_pop(d) AS p, variance(d) AS v, var_pop(d) AS w FROM s GROUP BY b;

-- spread_of_doubles: with the sums of doubles
SELECT a, stddev(x) AS s, stddev_pop(x) AS p, variance(x) AS v, var_pop(x) AS w FROM t GROUP BY a;

-- spread_of_all: of all rows
SELECT stddev(c) AS s, var_pop(d) AS v, stddev(c) FILTER (WHERE b = 1) AS f FROM s;

-- spread_of_empty: NULL of nothing
SELECT stddev(a) AS s, var_pop(a) AS v, skewness(a) AS k, corr(a, b) AS c FROM empty;

-- no_spread: zero, and not nearly zero, where all values are the same
SELECT var_pop(b * 0 + 0.1) AS v, stddev(b * 0 + 123456789) AS s FROM s;

-- far_from_zero: large values that differ little
SELECT stddev(c + 1000000) AS s, var_pop(c - 1000000) AS v, skewness(c + 10000) AS k FROM s;
-- duckdb:
SELECT stddev(c) AS s, var_pop(c) AS v,
  sqrt(count(c)) * sum((c - m) ** 3) / (sum((c - m) ** 2) ** 1.5) AS k FROM s, (SELECT avg(c) AS m FROM s) q;

-- distinct_spread: each value once
SELECT b, stddev(DISTINCT c) AS s, var_pop(DISTINCT c) AS v FROM s GROUP BY b;

-- shape: skewness and kurtosis of the population
SELECT skewness(c) AS s, kurtosis(c) AS k, skewness(d) AS t, kurtosis(d) AS l FROM s;
-- duckdb:
SELECT
  sqrt(count(c)) * sum((c - m) ** 3) / (sum((c - m) ** 2) ** 1.5) AS s,
  count(c) * sum((c - m) ** 4) / (sum((c - m) ** 2) ** 2) - 3 AS k,
  sqrt(count(d)) * sum((d - n) ** 3) / (sum((d - n) ** 2) ** 1.5) AS t,
  count(d) * sum((d - n) ** 4) / (sum((d - n) ** 2) ** 2) - 3 AS l
FROM s, (SELECT avg(c) AS m, avg(d) AS n FROM s) q;

-- shape_of_doubles: the same of doubles, in groups
SELECT a, skewness(x) AS s, kurtosis(x) AS k FROM t GROUP BY a;
-- duckdb:
SELECT t.a, CASE WHEN var_pop(x) > 0 THEN sqrt(count(x)) * sum((x - m) ** 3) / (sum((x - m) ** 2) ** 1.5) END AS s,
  CASE WHEN var_pop(x) > 0 THEN count(x) * sum((x - m) ** 4) / (sum((x - m) ** 2) ** 2) - 3 END AS k
FROM t JOIN (SELECT a, avg(x) AS m FROM t GROUP BY a) q ON t.a IS NOT DISTINCT FROM q.a GROUP BY t.a;

-- covariance: of pairs without a NULL
SELECT covar_pop(b, c) AS p, covar_samp(b, c) AS s, covar_pop(c, d) AS q FROM s;

-- covariance_of_groups: NULL where there is no pair, and of a sample of one
SELECT b, covar_pop(c, d) AS p, covar_samp(c, d) AS s FROM s GROUP BY b;

-- covariance_of_doubles: a double on one side
SELECT covar_pop(a, x) AS p, covar_samp(x, a) AS s FROM t;

-- correlation: between -1 and 1
SELECT corr(b, c) AS p, corr(c, d) AS q, corr(b, b) AS r FROM s;
-- duckdb:
SELECT nullif(corr(b, c), 'nan') AS p, nullif(corr(c, d), 'nan') AS q, nullif(corr(b, b), 'nan') AS r FROM s;

-- correlation_of_groups: NULL where one side does not vary
SELECT b, corr(c, d) AS r FROM s GROUP BY b;
-- duckdb:
SELECT b, CASE WHEN regr_sxx(c, d) > 0 AND regr_syy(c, d) > 0 THEN corr(c, d) END AS r FROM s GROUP BY b;

-- regression: a line through the pairs
SELECT regr_count(c, b) AS n, regr_avgx(c, b) AS x, regr_avgy(c, b) AS y, regr_sxx(c, b) AS sxx, regr_syy(c, b) AS syy,
  regr_sxy(c, b) AS sxy, regr_slope(c, b) AS slope, regr_intercept(c, b) AS start, regr_r2(c, b) AS r2 FROM s;
-- duckdb:
SELECT regr_count(c, b) AS n, regr_avgx(c, b) AS x, regr_avgy(c, b) AS y, regr_sxx(c, b) AS sxx, regr_syy(c, b) AS syy,
  regr_sxy(c, b) AS sxy, nullif(regr_slope(c, b), 'nan') AS slope, regr_intercept(c, b) AS start, regr_r2(c, b) AS r2
FROM s;

-- regression_of_decimals: the line of decimals
SELECT regr_count(d, c) AS n, regr_sxx(d, c) AS sxx, regr_syy(d, c) AS syy, regr_avgy(d, c) AS y,
  regr_sxy(d, c) AS sxy, regr_slope(d, c) AS slope, regr_intercept(d, c) AS start, regr_r2(d, c) AS r2 FROM s;

-- regression_of_groups: no line through one point
SELECT b, regr_count(c, d) AS n, regr_slope(c, d) AS slope, regr_intercept(c, d) AS start, regr_r2(c, d) AS r2
FROM s GROUP BY b;
-- duckdb:
SELECT b, regr_count(c, d) AS n, nullif(regr_slope(c, d), 'nan') AS slope, regr_intercept(c, d) AS start,
  regr_r2(c, d) AS r2 FROM s GROUP BY b;

-- regression_of_a_level: a level line explains all
SELECT regr_r2(b * 0 + 5, c) AS r2, regr_slope(b * 0 + 5, c) AS slope, corr(b * 0 + 5, c) AS r FROM s;
-- duckdb:
SELECT CASE WHEN count(b + c) > 1 THEN 1.0 END AS r2, CASE WHEN count(b + c) > 1 THEN 0.0 END AS slope, NULL AS r FROM s;

-- in_expressions: as any other aggregate
SELECT custkey, round(avg(price) - 2 * stddev(price), 3) AS lo FROM orders GROUP BY custkey HAVING var_pop(price) > 0;

-- over_join: of the pairs of a join
SELECT r.a, stddev(s.c) AS s, corr(r.b + s.c, s.c) AS r FROM r JOIN s ON r.b = s.b GROUP BY r.a;
-- duckdb:
SELECT r.a, stddev(s.c) AS s, CASE WHEN var_pop(s.c) > 0 THEN corr(r.b + s.c, s.c) END AS r
FROM r JOIN s ON r.b = s.b GROUP BY r.a;
