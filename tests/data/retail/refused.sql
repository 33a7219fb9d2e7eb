-- rand: a number that is another at each evaluation
-- clauses: rand
-- refused: NON_DETERMINISTIC
SELECT order_id, rand() AS r FROM orders;

-- rand_filter: a sample by hand
-- clauses: rand, where
-- refused: NON_DETERMINISTIC
SELECT order_id FROM orders WHERE rand() < 0.1;

-- randn: the same with another distribution
-- clauses: rand
-- refused: NON_DETERMINISTIC
SELECT prod_id, randn() AS r FROM products;

-- uuid: a name for each row
-- clauses: uuid
-- refused: NON_DETERMINISTIC
SELECT uuid() AS id, order_id FROM orders;

-- shuffle: an array in some order
-- clauses: shuffle
-- refused: NON_DETERMINISTIC
SELECT basket_id, shuffle(tags) AS tags FROM baskets;

-- row_id: a number of the evaluation
-- clauses: monotonically_increasing_id
-- refused: NON_DETERMINISTIC
SELECT monotonically_increasing_id() AS id, order_id FROM orders;

-- partition_id: where a row happens to be
-- clauses: spark_partition_id
-- refused: NON_DETERMINISTIC
SELECT spark_partition_id() AS p, count(*) AS n FROM orders GROUP BY spark_partition_id();

-- first: of rows in no order
-- clauses: first
-- refused: NON_DETERMINISTIC
SELECT cust_id, first(order_id) AS f FROM orders GROUP BY cust_id;

-- last: of rows in no order
-- clauses: last
-- refused: NON_DETERMINISTIC
SELECT cust_id, last(order_id) AS f FROM orders GROUP BY cust_id;

-- any_value: any
-- clauses: any_value
-- refused: NON_DETERMINISTIC
SELECT cust_id, any_value(status) AS s FROM orders GROUP BY cust_id;

-- sample: some of the rows
-- clauses: tablesample
-- refused: NON_DETERMINISTIC
SELECT order_id FROM orders TABLESAMPLE (10 PERCENT);

-- sample_rows: a number of rows
-- clauses: tablesample
-- refused: NON_DETERMINISTIC
SELECT count(*) AS n FROM orders TABLESAMPLE (5 ROWS);

-- now: the time of the evaluation
-- clauses: current_timestamp
-- refused: TIME_OF_DAY
SELECT order_id, current_timestamp() AS t FROM orders;

-- today: orders of the last month
-- clauses: current_date, where
-- refused: TIME_OF_DAY
SELECT order_id FROM orders WHERE day >= current_date() - INTERVAL 30 DAYS;

-- age: how long ago
-- clauses: current_date, datediff
-- refused: TIME_OF_DAY
SELECT cust_id, datediff(current_date(), joined) AS days FROM customers;

-- now_word: the other name
-- clauses: now, aggregate without group
-- refused: TIME_OF_DAY
SELECT max(placed) < now() AS past FROM orders;

-- local_time: the time without a zone
-- clauses: localtimestamp
-- refused: TIME_OF_DAY
SELECT order_id, localtimestamp() AS t FROM orders;

-- unix_now: the seconds of now
-- clauses: unix_timestamp
-- refused: TIME_OF_DAY
SELECT order_id, unix_timestamp() - unix_timestamp(placed) AS age FROM orders;

-- recursion: the greatest boss of the bosses so far, by an aggregate inside of the step
-- clauses: recursive cte
-- refused: RECURSION_SHAPE
WITH RECURSIVE chain(boss_id, depth) AS (
  SELECT boss_id, 0 FROM employees
  UNION ALL
  SELECT max(e.boss_id), c.depth + 1 FROM chain c JOIN employees e ON c.boss_id = e.emp_id GROUP BY c.depth
) SELECT boss_id, depth FROM chain;
