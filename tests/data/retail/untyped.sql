-- null_column: a column of NULLs has no type
-- clauses: constants, untyped null
SELECT order_id, NULL AS nothing FROM orders;

-- null_union: and takes the type of the other side
-- clauses: union all, untyped null
SELECT order_id, cust_id FROM orders UNION ALL SELECT pay_id, NULL FROM payments;
