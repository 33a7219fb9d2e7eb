-- name: q0: the bids as they are
SELECT auction, bidder, price, ts, extra FROM bid;

-- name: q1: prices in another currency
SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(20, 3)) AS price, ts, extra FROM bid;

-- name: q2: bids for some auctions
SELECT auction, price FROM bid WHERE auction % 23 = 0;

-- name: q3: who sells in some states, in one category
SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca');

-- name: q4: the mean closing price of each category
SELECT q.category, avg(q.final) AS mean
FROM (SELECT max(b.price) AS final, a.category FROM auction a JOIN bid b ON a.id = b.auction
      WHERE b.ts BETWEEN a.ts AND a.expires GROUP BY a.id, a.category) q
GROUP BY q.category;

-- name: q5: the auctions with most bids in hopping windows
WITH counts AS (SELECT auction, window.start AS starts, count(*) AS num FROM bid GROUP BY auction, window(ts, '10 seconds', '5 seconds')),
     most AS (SELECT starts, max(num) AS maxn FROM counts GROUP BY starts)
SELECT counts.auction, counts.num, counts.starts FROM counts JOIN most ON counts.starts = most.starts AND counts.num >= most.maxn;

-- name: q6: the mean of the last ten closing prices of each seller
SELECT q.seller, q.ends, avg(q.final) OVER (PARTITION BY q.seller ORDER BY q.ends, q.id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS mean
FROM (SELECT a.seller, a.id, a.expires AS ends, max(b.price) AS final FROM auction a JOIN bid b ON a.id = b.auction
      WHERE b.ts BETWEEN a.ts AND a.expires GROUP BY a.seller, a.id, a.expires) q;

-- name: q7: the highest bids of each window
WITH tops AS (SELECT window.start AS starts, window.end AS ends, max(price) AS maxprice FROM bid GROUP BY window(ts, '10 seconds'))
SELECT b.auction, b.price, b.bidder, b.ts, b.extra FROM bid b JOIN tops ON b.price = tops.maxprice
WHERE b.ts >= tops.starts AND b.ts < tops.ends;

-- name: q8: persons who came and sold in one window
SELECT p.id, p.name, p.starts
FROM (SELECT id, name, window.start AS starts FROM person GROUP BY id, name, window(ts, '10 seconds')) p
JOIN (SELECT seller, window.start AS starts FROM auction GROUP BY seller, window(ts, '10 seconds')) a
  ON p.id = a.seller AND p.starts = a.starts;

-- name: q9: the winning bid of each auction
SELECT id, item, seller, expires, bidder, price, ts
FROM (SELECT a.id, a.item, a.seller, a.expires, b.bidder, b.price, b.ts,
             row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.bidder) AS place
      FROM auction a JOIN bid b ON a.id = b.auction WHERE b.ts BETWEEN a.ts AND a.expires) w
WHERE place <= 1;

-- name: q10: bids with the day and hour by which they are filed
SELECT auction, bidder, price, ts, extra, CAST(ts AS DATE) AS day, date_trunc('hour', ts) AS hour FROM bid;

-- name: q11: sessions of each bidder
SELECT bidder, session_window.start AS starts, session_window.end AS ends, count(*) AS bids FROM bid GROUP BY bidder, session_window(ts, '10 seconds');

-- name: q12: bids of each bidder by the time at which they arrived
SELECT bidder, window.start AS starts, count(*) AS bids FROM bid GROUP BY bidder, window(arrived, '10 seconds');

-- name: q13: bids with what a table that never changes says of them
SELECT b.auction, b.bidder, b.price, b.ts, s.value FROM bid b JOIN side s ON b.auction % 20 = s.key;

-- name: q14: bids of a range of prices, with the time of day
SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(20, 3)) AS price,
       CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time, ts,
       length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid WHERE 0.908 * price > 100 AND 0.908 * price < 5000;

-- name: q15: bids, bidders and auctions of each day
SELECT CAST(ts AS DATE) AS day, count(*) AS total_bids,
       count_if(price < 100) AS rank1_bids, count_if(price >= 100 AND price < 1000) AS rank2_bids, count_if(price >= 1000) AS rank3_bids,
       count(DISTINCT bidder) AS total_bidders, count(DISTINCT bidder) FILTER (WHERE price < 100) AS rank1_bidders,
       count(DISTINCT auction) AS total_auctions, count(DISTINCT auction) FILTER (WHERE price >= 1000) AS rank3_auctions
FROM bid GROUP BY CAST(ts AS DATE);

-- name: q16: the same of each channel and day
SELECT channel, CAST(ts AS DATE) AS day, max(date_trunc('minute', ts)) AS minute, count(*) AS total_bids,
       count_if(price < 100) AS rank1_bids, count(DISTINCT bidder) AS total_bidders, count(DISTINCT auction) AS total_auctions
FROM bid GROUP BY channel, CAST(ts AS DATE);

-- name: q17: prices of each auction and day
SELECT auction, CAST(ts AS DATE) AS day, count(*) AS total_bids, count_if(price < 100) AS rank1_bids,
       min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid GROUP BY auction, CAST(ts AS DATE);

-- name: q18: the last bid of each bidder for each auction
SELECT auction, bidder, price, channel, ts, extra
FROM (SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC, price, extra) AS place FROM bid) b
WHERE place <= 1;

-- name: q19: the ten highest bids of each auction
SELECT auction, bidder, price, ts, extra, place
FROM (SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, ts, bidder, extra) AS place FROM bid) b
WHERE place <= 10;

-- name: q20: bids with their auctions, of one category
SELECT b.auction, b.bidder, b.price, b.ts, a.item, a.seller, a.expires FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10;

-- name: q21: the channel of each bid
SELECT auction, bidder, price, channel,
       CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2'
            ELSE substring_index(url, 'channel_id=', -1) END AS channel_id
FROM bid WHERE lower(channel) IN ('apple', 'google', 'facebook') OR url LIKE '%channel_id=%';

-- name: q22: the folders of each bid's address
SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid;
