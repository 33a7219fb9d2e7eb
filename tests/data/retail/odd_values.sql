-- group_nan: NaN is one group, and zero another
-- clauses: group by, odd doubles
SELECT credit, count(*) AS n, min(cust_id) AS least FROM customers GROUP BY credit;

-- distinct_nan: once
-- clauses: distinct, odd doubles
SELECT DISTINCT weight FROM products;

-- join_nan: NaN is equal to NaN, -0.0 to 0.0
-- clauses: inner join, odd doubles
SELECT c.cust_id, p.prod_id FROM customers c JOIN products p ON c.credit = p.weight;

-- left_join_nan: outer
-- clauses: left join, odd doubles
SELECT v.page, v.score, p.prod_id FROM visits v LEFT JOIN products p ON v.score = p.weight;

-- sum_nan: a sum with NaN is NaN until it goes
-- clauses: sum, avg, odd doubles
SELECT cust_id, sum(score) AS s, avg(score) AS a, count(score) AS n FROM visits GROUP BY cust_id;

-- stddev_nan: so is a deviation
-- clauses: stddev, odd doubles
SELECT page, stddev_pop(score) AS s, var_samp(score) AS v FROM visits GROUP BY page;

-- count_distinct_nan: different doubles
-- clauses: count distinct, odd doubles
SELECT page, count(DISTINCT score) AS n FROM visits GROUP BY page;

-- compare_nan: NaN is larger than all
-- clauses: where, odd doubles
SELECT cust_id, credit, credit > 1000 AS large, credit = double('NaN') AS nan, isnan(credit) AS is, credit = 0 AS zero FROM customers;

-- nanvl: another value for NaN
-- clauses: nanvl, odd doubles
SELECT prod_id, nanvl(weight, 0) AS w, coalesce(nanvl(weight, NULL), -1) AS c FROM products;

-- extremes_nan: largest and smallest of all
-- clauses: min, max, odd doubles, aggregate without group
SELECT min(score) AS l, max(score) AS m, min(-score) AS n FROM visits;

-- max_by_nan: by a column with NaN
-- clauses: max_by, odd doubles
SELECT active, max_by(prod_id, struct(weight, prod_id)) AS heaviest FROM products WHERE weight IS NOT NULL GROUP BY active;

-- in_nan: a subquery with NaN
-- clauses: in, odd doubles
SELECT prod_id, weight FROM products WHERE weight IN (SELECT credit FROM customers);

-- except_nan: NaN goes with NaN
-- clauses: except, odd doubles
SELECT weight FROM products EXCEPT SELECT score FROM visits;

-- null_group: NULL is one group
-- clauses: group by, null keys
SELECT cust_id, store_id, count(*) AS n FROM orders GROUP BY cust_id, store_id;

-- null_join: NULL joins with nothing
-- clauses: inner join, null keys
SELECT a.page, b.page AS other FROM visits a JOIN visits b ON a.cust_id = b.cust_id AND a.at < b.at;

-- null_sum: a sum of NULLs is NULL, a count 0
-- clauses: sum, null keys
SELECT page, sum(ms) AS s, count(ms) AS n, avg(ms) AS a, max(ms) AS m FROM visits WHERE ms IS NULL OR page = 'home' GROUP BY page;

-- null_min: NULL is left out
-- clauses: min, max, null keys
SELECT region_id, min(joined) AS first, max(email) AS last, count(email) AS n FROM customers GROUP BY region_id;

-- null_not_equal: neither equal nor not
-- clauses: where, null keys
SELECT a.order_id FROM orders a WHERE a.status <> 'paid';

-- zero_sign: the sign of zero in answers
-- clauses: odd doubles
SELECT prod_id, weight * -1 AS negated, weight + 0 AS plus, abs(weight) AS absolute FROM products WHERE weight = 0;

-- infinite: a sum that is infinite, until it goes
-- clauses: sum, odd doubles
SELECT page, sum(score) AS s, max(score) AS m FROM visits WHERE NOT isnan(score) GROUP BY page;

-- rollup_null: NULL keys in a rollup
-- clauses: rollup, null keys
SELECT cust_id, page, count(*) AS n FROM visits GROUP BY ROLLUP (cust_id, page);

-- duplicates: rows that repeat are counted
-- clauses: null keys
SELECT store_id, prod_id, day, moved FROM stock;

-- duplicates_group: how often each row is there
-- clauses: group by, having
SELECT store_id, prod_id, day, moved, count(*) AS n FROM stock GROUP BY ALL HAVING count(*) > 1;
