-- union_all: with repeats
-- clauses: union all
SELECT region_id FROM customers UNION ALL SELECT region_id FROM stores;

-- union: without
-- clauses: union
SELECT region_id FROM customers UNION SELECT region_id FROM stores;

-- union_types: the wider type of both sides
-- clauses: union all
SELECT prod_id AS id, price AS value FROM products UNION ALL SELECT store_id, area FROM stores;

-- union_three: mixed, from left to right
-- clauses: union all, union
SELECT cust_id FROM orders UNION ALL SELECT cust_id FROM visits UNION SELECT cust_id FROM baskets;

-- intersect: in both
-- clauses: intersect
SELECT cust_id FROM orders INTERSECT SELECT cust_id FROM visits;

-- intersect_all: as often as in both
-- clauses: intersect all
SELECT cust_id FROM orders INTERSECT ALL SELECT cust_id FROM visits;

-- except: in the first only
-- clauses: except
SELECT cust_id FROM customers EXCEPT SELECT cust_id FROM orders;

-- except_all: as often as more
-- clauses: except all
SELECT prod_id FROM order_lines EXCEPT ALL SELECT prod_id FROM returns;

-- minus: the other word
-- clauses: except
SELECT prod_id FROM stock MINUS SELECT prod_id FROM promotions;

-- except_two_columns: rows with NULLs are equal
-- clauses: except, null keys
SELECT store_id, prod_id FROM stock EXCEPT SELECT o.store_id, l.prod_id FROM orders o JOIN order_lines l USING (order_id);

-- intersect_group: counted
-- clauses: intersect, group by
SELECT count(*) AS n, min(cust_id) AS least FROM (SELECT cust_id FROM orders INTERSECT SELECT cust_id FROM visits);

-- union_group: groups over a union
-- clauses: union all, group by
SELECT kind, count(*) AS n, max(day) AS last FROM (
  SELECT 'order' AS kind, day FROM orders UNION ALL SELECT 'return', day FROM returns UNION ALL SELECT 'stock', day FROM stock
) GROUP BY kind;

-- union_of_groups: groups under a union
-- clauses: union, group by
SELECT cust_id, count(*) AS n FROM orders GROUP BY cust_id UNION SELECT cust_id, count(*) FROM visits GROUP BY cust_id;

-- except_of_joins: joins on both sides
-- clauses: except, inner join
SELECT c.cust_id, p.title FROM customers c CROSS JOIN products p WHERE c.vip AND p.active
EXCEPT
SELECT o.cust_id, p.title FROM orders o JOIN order_lines l USING (order_id) JOIN products p ON p.prod_id = l.prod_id;

-- nested_sets: brackets decide
-- clauses: except, intersect, union
(SELECT cust_id FROM customers EXCEPT SELECT cust_id FROM orders) UNION (SELECT cust_id FROM visits INTERSECT SELECT cust_id FROM baskets);

-- precedence: INTERSECT binds closer
-- clauses: intersect, union
SELECT cust_id FROM customers WHERE vip UNION SELECT cust_id FROM orders INTERSECT SELECT cust_id FROM visits;

-- symmetric: what differs
-- clauses: except all, union all
(SELECT order_id FROM orders EXCEPT ALL SELECT order_id FROM payments)
UNION ALL
(SELECT order_id FROM payments EXCEPT ALL SELECT order_id FROM orders);

-- joined_set: a union as one side of an outer join
-- clauses: union, left join
SELECT t.cust_id, c.name FROM (SELECT cust_id FROM orders UNION SELECT cust_id FROM visits) t LEFT JOIN customers c ON t.cust_id = c.cust_id;

-- odd_sets: NaN and -0.0 are one value each
-- clauses: union, odd doubles
SELECT score FROM visits UNION SELECT credit FROM customers UNION SELECT weight FROM products;

-- values_union: with rows that are written out
-- clauses: union all, values
SELECT cust_id, name FROM customers UNION ALL VALUES (0, 'nobody'), (0, 'nobody');
