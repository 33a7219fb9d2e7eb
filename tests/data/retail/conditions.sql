-- case_search: classes of amounts
-- clauses: case
SELECT pay_id, CASE WHEN amount < 0 THEN 'refund' WHEN amount < 50 THEN 'small' ELSE 'large' END AS class FROM payments;

-- case_value: by value, without ELSE
-- clauses: case
SELECT order_id, CASE status WHEN 'paid' THEN 1 WHEN 'open' THEN 0 END AS code FROM orders;

-- case_group: grouped by a class
-- clauses: case, group by
SELECT CASE WHEN price < 20 THEN 'low' WHEN price < 50 THEN 'mid' ELSE 'high' END AS class, count(*) AS n, sum(qty) AS q FROM order_lines GROUP BY 1;

-- if_and_iff: short forms
-- clauses: if
SELECT order_id, if(channel = 'web', 1, 0) AS web, nvl(status, '?') AS s, nvl2(status, 'known', 'unknown') AS k, ifnull(cust_id, -1) AS c, decode(channel, 'web', 'W', 'shop', 'S', '-') AS d FROM orders;

-- coalesce: the first that is known
-- clauses: coalesce
SELECT c.cust_id, coalesce(c.email, c.name, 'nobody') AS contact, coalesce(r.region, 'none') AS region FROM customers c LEFT JOIN regions r USING (region_id);

-- nullif: no division by zero
-- clauses: nullif
SELECT store_id, prod_id, 100 / nullif(moved, 20) AS x, nullif(moved, -1) AS y FROM stock;

-- nullifs: zero and NULL
-- clauses: nullifzero
SELECT cust_id, zeroifnull(credit) AS z, nullifzero(credit) AS n FROM customers;

-- casts: between types
-- clauses: cast
SELECT order_id, CAST(price AS INT) AS i, CAST(price AS STRING) AS s, CAST(discount AS DECIMAL(4,1)) AS d, CAST(qty AS BOOLEAN) AS b, price::DOUBLE AS f FROM order_lines;

-- cast_dates: texts, dates and times
-- clauses: cast
SELECT order_id, CAST(day AS STRING) AS s, CAST(day AS TIMESTAMP) AS t, CAST(placed AS DATE) AS d, CAST(CAST(day AS STRING) AS DATE) AS back FROM orders;

-- cast_doubles: the texts of doubles
-- clauses: cast, odd doubles
SELECT cust_id, CAST(credit + 0.0 AS STRING) AS s, CAST(credit + 0.0 AS FLOAT) AS f FROM customers;

-- try_cast: NULL for what cannot be
-- clauses: try_cast
SELECT prod_id, try_cast(title AS INT) AS i, try_cast(split_part(title, '-', 2) AS INT) AS part, try_cast(weight AS INT) AS w FROM products WHERE NOT isnan(weight);

-- try_arithmetic: NULL for what has no answer
-- clauses: try_divide
SELECT store_id, prod_id, try_divide(100, moved - 20) AS d, try_add(moved, 2147483647) AS a, try_multiply(moved, 2147483647) AS m, try_subtract(moved, 2147483647) AS s FROM stock;

-- logic: of three values
-- clauses: three-valued logic
SELECT cust_id, vip AND credit > 50 AS a, vip OR credit > 50 AS o, NOT vip AS n, vip IS NOT TRUE AS t, vip <=> NULL AS u, (vip IS NULL) = (email IS NULL) AS x FROM customers;

-- between: and lists
-- clauses: between, in list
SELECT order_id, line FROM order_lines WHERE price BETWEEN 10 AND 40 AND qty IN (1, 2) AND prod_id NOT IN (3, 4);

-- not_in_list_null: a list with NULL
-- clauses: in list, null keys
SELECT order_id, status IN ('paid', NULL) AS a, status NOT IN ('paid', 'open') AS b FROM orders;

-- greatest: and least
-- clauses: greatest, least
SELECT order_id, line, greatest(qty, line, 2) AS g, least(price, 30) AS l, greatest(discount, 0.1) AS d FROM order_lines;

-- rounding: up, down and to even
-- clauses: round
SELECT order_id, line, round(price, 1) AS r, bround(price, 0) AS b, floor(price) AS f, ceil(price) AS c, round(discount, 1) AS d, truncate_price FROM (SELECT *, CAST(price AS BIGINT) AS truncate_price FROM order_lines);

-- arithmetic: mod, div, powers
-- clauses: arithmetic
SELECT order_id, order_id % 7 AS m, pmod(-order_id, 7) AS p, order_id div 10 AS d, power(2, line) AS pw, sqrt(order_id) AS s, ln(order_id) AS l, abs(line - 2) AS a, sign(line - 2) AS sg FROM order_lines;

-- decimals: the types of products and quotients
-- clauses: decimal arithmetic
SELECT order_id, line, price * qty AS t, price / 3 AS q, price * 0.19 AS tax, price - 100 AS m, price % 7 AS r, price * CAST(discount AS DECIMAL(5,3)) AS off FROM order_lines;

-- bits: of whole numbers
-- clauses: bitwise
SELECT order_id, order_id & 7 AS a, order_id | 8 AS o, order_id ^ 3 AS x, ~order_id AS n, shiftleft(order_id, 1) AS l, bit_count(order_id) AS c FROM orders;

-- hash: of columns
-- clauses: hash
SELECT order_id, hash(order_id, channel) AS h, xxhash64(day) AS x FROM orders;

-- boolean_column: a condition as a column, counted
-- clauses: case, group by
SELECT price > 30 AS dear, qty IS NULL AS unknown, count(*) AS n FROM order_lines GROUP BY price > 30, qty IS NULL;

-- constant: columns that read nothing
-- clauses: constants
SELECT 1 AS one, 'x' AS x, DATE '2024-02-29' AS d, CAST(NULL AS INT) AS n, order_id FROM orders;

-- where_many: conditions of all sorts
-- clauses: where
SELECT order_id FROM orders WHERE (channel = 'web' OR store_id = 2) AND NOT (status <=> 'cancelled') AND day >= '2023-12-01' AND cust_id IS NOT NULL;

-- lateral_alias: an alias used beside its definition
-- clauses: lateral alias
SELECT order_id, line, price * qty AS total, total * 0.1 AS tax, total + tax AS gross FROM order_lines;

-- star_except: all columns but some
-- clauses: star
SELECT * EXCEPT (attrs, weight) FROM products;
