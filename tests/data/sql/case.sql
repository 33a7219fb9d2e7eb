-- searched: the first condition that holds
SELECT a, CASE WHEN a > 2 THEN 'high' WHEN a > 1 THEN 'mid' ELSE 'low' END AS level FROM r;

-- no_else: NULL where none holds
SELECT a, CASE WHEN a > 1 THEN b END AS v FROM r;

-- simple: a value compared with values
SELECT a, CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'more' END AS word FROM r;

-- simple_null: NULL equals nothing, also here
SELECT a, CASE a WHEN NULL THEN 'null' WHEN 1 THEN 'one' END AS word FROM r;

-- simple_expression: expressions on both sides
SELECT a, b, CASE a + b WHEN b THEN 'b' WHEN 2 * b THEN 'same' END AS w FROM r;

-- nested: a choice in a choice
SELECT a, b, CASE WHEN a IS NULL THEN CASE WHEN b IS NULL THEN 'both' ELSE 'a' END
                  ELSE CASE b WHEN 1 THEN 'one' ELSE 'other' END END AS w
FROM r;

-- types: branches of different number types
SELECT b, CASE WHEN b = 1 THEN d WHEN b = 2 THEN c ELSE 0 END AS v FROM s;

-- double_branches: a double and an integer branch
SELECT a, CASE WHEN flag THEN x ELSE a END AS v FROM t;

-- guard: a branch that is not taken is not evaluated
SELECT a, b, CASE WHEN a <> 1 THEN 12 / (a - 1) ELSE 0 END AS q FROM r;

-- if: the short form
SELECT a, if(b = 1, a * 10, -1) AS v FROM r;

-- nullif: NULL where equal
SELECT a, b, nullif(a, b) AS v, nullif(s, 'x') AS w FROM r;

-- coalesce: the first that is not NULL
SELECT coalesce(a, b, 0) AS v, coalesce(s, 'none') AS w FROM r;

-- coalesce_types: integers and decimals
SELECT coalesce(d, c) AS v, coalesce(c, d, 0.5) AS w FROM s;

-- ifnull: two arguments
SELECT ifnull(a, -1) AS v, nvl(b, a) AS w FROM r;
-- duckdb:
SELECT ifnull(a, -1) AS v, coalesce(b, a) AS w FROM r;

-- nvl2: a choice by NULL
SELECT nvl2(a, b, -1) AS v FROM r;
-- duckdb:
SELECT CASE WHEN a IS NOT NULL THEN b ELSE -1 END AS v FROM r;

-- in_arithmetic: a choice as an operand
SELECT a, 10 * CASE WHEN b = 1 THEN 1 ELSE 2 END + a AS v FROM r;

-- group_and_where: a choice as key and condition
SELECT CASE WHEN price > 50 THEN 'dear' ELSE 'cheap' END AS class, count(*) AS n, sum(price) AS total
FROM orders
WHERE CASE status WHEN 'P' THEN false ELSE true END
GROUP BY CASE WHEN price > 50 THEN 'dear' ELSE 'cheap' END;

-- pivot: rows to columns by choices
SELECT custkey, sum(CASE WHEN status = 'O' THEN price END) AS o, sum(CASE WHEN status = 'F' THEN price ELSE 0 END) AS f,
       count(CASE WHEN status IS NULL THEN 1 END) AS u
FROM orders GROUP BY custkey;
