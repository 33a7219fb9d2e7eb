-- Potential part promotion: Canadian suppliers with more of a forest part than half a year's sales.
-- at small scale: p_name LIKE 'forest%' => p_name LIKE '%o%'
-- at small scale: n.n_name = 'CANADA' => n.n_name < 'INDIA'
SELECT s.s_name, s.s_address
FROM supplier s
JOIN nation n ON n.n_nationkey = s.s_nationkey
WHERE n.n_name = 'CANADA'
  AND s.s_suppkey IN (
    SELECT ps.ps_suppkey
    FROM partsupp ps
    WHERE ps.ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
      AND ps.ps_availqty > (
        SELECT 0.5 * sum(l.l_quantity)
        FROM lineitem l
        WHERE l.l_partkey = ps.ps_partkey AND l.l_suppkey = ps.ps_suppkey
          AND l.l_shipdate >= DATE '1994-01-01'
          AND l.l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR))
