-- A shop, as a dump writes it: checks are off, tables come in the order of their names, so that children come before parents.
-- With triggers, a view, a generated column and a partitioned table.
/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;
/*!40014 SET @OLD_FOREIGN_KEY_CHECKS=@@FOREIGN_KEY_CHECKS, FOREIGN_KEY_CHECKS=0 */;
/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;

DROP TABLE IF EXISTS `addresses`;
CREATE TABLE `addresses` (
  `customer` int(11) NOT NULL,
  `kind` enum('bill','delivery') NOT NULL DEFAULT 'bill',
  `street` varchar(190) NOT NULL DEFAULT '',
  PRIMARY KEY (`customer`,`kind`),
  CONSTRAINT `addresses_of_customers` FOREIGN KEY (`customer`) REFERENCES `customers` (`id`) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

LOCK TABLES `addresses` WRITE;
/*!40000 ALTER TABLE `addresses` DISABLE KEYS */;
INSERT INTO `addresses` VALUES (1,'bill','Main Street 1'),(1,'delivery','Station Road 2'),(2,'bill','Hill 3');
/*!40000 ALTER TABLE `addresses` ENABLE KEYS */;
UNLOCK TABLES;

DROP TABLE IF EXISTS `customers`;
CREATE TABLE `customers` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `mail` varchar(190) NOT NULL,
  `referred_by` varchar(190) DEFAULT NULL,
  `mail_domain` varchar(190) GENERATED ALWAYS AS (substring_index(`mail`,'@',-1)) STORED,
  PRIMARY KEY (`id`),
  UNIQUE KEY `mail` (`mail`),
  KEY `mail_domain` (`mail_domain`),
  KEY `referred_by` (`referred_by`),
  CONSTRAINT `customers_ibfk_1` FOREIGN KEY (`referred_by`) REFERENCES `customers` (`mail`) ON DELETE SET NULL
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

LOCK TABLES `customers` WRITE;
INSERT INTO `customers` (`id`, `mail`, `referred_by`) VALUES (1,'ada@example.org',NULL),(2,'ben@example.net','ADA@example.org'),(3,'cleo@example.org',NULL);
UNLOCK TABLES;

DROP TABLE IF EXISTS `order_lines`;
CREATE TABLE `order_lines` (
  `order_id` bigint(20) unsigned NOT NULL,
  `line` smallint(5) unsigned NOT NULL,
  `product` binary(16) NOT NULL,
  `quantity` int(11) NOT NULL CHECK (`quantity` > 0),
  PRIMARY KEY (`order_id`,`line`),
  KEY `product` (`product`),
  CONSTRAINT `order_lines_ibfk_1` FOREIGN KEY (`order_id`) REFERENCES `orders` (`id`) ON DELETE CASCADE,
  CONSTRAINT `order_lines_ibfk_2` FOREIGN KEY (`product`) REFERENCES `products` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

INSERT INTO `order_lines` VALUES (1,1,0x00000000000000000000000000000001,2),(1,2,0x00000000000000000000000000000002,1);

DROP TABLE IF EXISTS `orders`;
CREATE TABLE `orders` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `customer` int(11) DEFAULT NULL,
  `delivery` enum('bill','delivery') DEFAULT NULL,
  `placed` timestamp NOT NULL DEFAULT current_timestamp(),
  PRIMARY KEY (`id`),
  KEY `customer_delivery` (`customer`,`delivery`),
  CONSTRAINT `orders_of_customers` FOREIGN KEY (`customer`) REFERENCES `customers` (`id`) ON UPDATE CASCADE,
  CONSTRAINT `orders_to_addresses` FOREIGN KEY (`customer`,`delivery`) REFERENCES `addresses` (`customer`,`kind`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

INSERT INTO `orders` VALUES (1,1,'delivery','2024-05-06 07:08:09'),(2,2,NULL,'2024-05-06 07:08:10');

DROP TABLE IF EXISTS `products`;
CREATE TABLE `products` (
  `id` binary(16) NOT NULL,
  `name` varchar(190) NOT NULL,
  `sold` int(11) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

INSERT INTO `products` VALUES (0x00000000000000000000000000000001,'lamp',2),(0x00000000000000000000000000000002,'desk',1);

CREATE TABLE `visits` (
  `day` date NOT NULL,
  `page` int(11) NOT NULL,
  `count` int(11) NOT NULL DEFAULT 0,
  PRIMARY KEY (`day`,`page`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
PARTITION BY RANGE (to_days(`day`))
(PARTITION `old` VALUES LESS THAN (to_days('2024-01-01')) ENGINE = InnoDB,
 PARTITION `new` VALUES LESS THAN MAXVALUE ENGINE = InnoDB);
INSERT INTO visits VALUES ('2023-12-31', 1, 10), ('2024-01-01', 1, 20);

DELIMITER ;;
CREATE TRIGGER `lines_sold` AFTER INSERT ON `order_lines` FOR EACH ROW
BEGIN
  UPDATE products SET sold = sold + NEW.quantity WHERE id = NEW.product;
END ;;
CREATE PROCEDURE `forget`(IN who INT)
BEGIN
  UPDATE orders SET customer = NULL, delivery = NULL WHERE customer = who;
  DELETE FROM customers WHERE id = who;
END ;;
DELIMITER ;

CREATE VIEW `open_orders` AS SELECT `orders`.`id` AS `id`, `customers`.`mail` AS `mail`
  FROM `orders` LEFT JOIN `customers` ON `orders`.`customer` = `customers`.`id`;

/*!40101 SET SQL_MODE=@OLD_SQL_MODE */;
/*!40014 SET FOREIGN_KEY_CHECKS=@OLD_FOREIGN_KEY_CHECKS */;
/*!40014 SET UNIQUE_CHECKS=@OLD_UNIQUE_CHECKS */;

INSERT INTO order_lines VALUES (2, 1, 0x00000000000000000000000000000002, 4);
INSERT INTO order_lines VALUES (2, 2, 0x00000000000000000000000000000009, 4);
INSERT INTO order_lines VALUES (2, 2, 0x00000000000000000000000000000002, 0);
INSERT INTO orders (customer, delivery) VALUES (2, 'delivery');
INSERT INTO orders (customer, delivery) VALUES (7, NULL);
UPDATE customers SET mail = 'new@example.org' WHERE id = 1;
UPDATE customers SET id = 20 WHERE id = 2;
UPDATE customers SET id = 10 WHERE id = 1;
DELETE FROM customers WHERE id = 3;
DELETE FROM customers WHERE id = 1;
INSERT IGNORE INTO order_lines VALUES (9, 1, 0x00000000000000000000000000000001, 1), (2, 3, 0x00000000000000000000000000000001, 1);
REPLACE INTO products VALUES (0x00000000000000000000000000000001, 'lamp 2', 0);
INSERT INTO customers (id, mail) VALUES (20, 'x@example.org') ON DUPLICATE KEY UPDATE id = 21;
CALL forget(1);
CALL forget(20);
ALTER TABLE visits ADD CONSTRAINT FOREIGN KEY (page) REFERENCES orders (id);
DELETE FROM orders WHERE id = 1;
SELECT * FROM customers ORDER BY id;
SELECT * FROM orders ORDER BY id;
SELECT order_id, line, quantity FROM order_lines ORDER BY order_id, line;
SELECT name, sold FROM products ORDER BY name;
SELECT * FROM addresses ORDER BY customer, kind;
SELECT * FROM open_orders ORDER BY id;
