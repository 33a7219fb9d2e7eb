-- Suppliers who kept orders waiting: the only one of several in an order who delivered late.
-- at small scale: n.n_name = 'SAUDI ARABIA' => n.n_name >= 'K'
SELECT s.s_name, count(*) AS numwait
FROM supplier s
JOIN lineitem l1 ON l1.l_suppkey = s.s_suppkey
JOIN orders o ON o.o_orderkey = l1.l_orderkey
JOIN nation n ON n.n_nationkey = s.s_nationkey
WHERE o.o_orderstatus = 'F' AND l1.l_receiptdate > l1.l_commitdate AND n.n_name = 'SAUDI ARABIA'
  AND EXISTS (
    SELECT 1 FROM lineitem l2
    WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey)
  AND NOT EXISTS (
    SELECT 1 FROM lineitem l3
    WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey
      AND l3.l_receiptdate > l3.l_commitdate)
GROUP BY s.s_name
ORDER BY numwait DESC, s.s_name
LIMIT 100
