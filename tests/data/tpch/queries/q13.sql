-- Customer distribution: how many customers have how many orders, special requests left out.
SELECT c_count, count(*) AS custdist
FROM (
  SELECT c.c_custkey, count(o.o_orderkey) AS c_count
  FROM customer c
  LEFT JOIN orders o ON o.o_custkey = c.c_custkey AND o.o_comment NOT LIKE '%special%requests%'
  GROUP BY c.c_custkey) AS c_orders
GROUP BY c_count
