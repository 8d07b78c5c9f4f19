-- A company: a self reference, references in the columns' definitions, keys of several columns, a circle of two tables that is
-- made without checks, and one table for each action of a foreign key.
SET NAMES utf8mb4;

DROP TABLE IF EXISTS assignments, projects, employees, departments, offices;

CREATE TABLE offices (
  country CHAR(2) NOT NULL,
  number SMALLINT UNSIGNED NOT NULL,
  city VARCHAR(60) NOT NULL,
  PRIMARY KEY (country, number),
  KEY by_city (city)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

-- Two tables that refer to one another: the first is made when its parent does not exist yet.
SET @checks = @@foreign_key_checks, foreign_key_checks = 0;

CREATE TABLE departments (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARCHAR(80) NOT NULL,
  head INT UNSIGNED DEFAULT NULL,
  country CHAR(2) DEFAULT NULL,
  office SMALLINT UNSIGNED DEFAULT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY name (name),
  CONSTRAINT department_head FOREIGN KEY (head) REFERENCES employees (id) ON DELETE SET NULL ON UPDATE CASCADE,
  CONSTRAINT department_office FOREIGN KEY where_it_is (country, office) REFERENCES offices (country, number)
    ON DELETE RESTRICT ON UPDATE CASCADE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

CREATE TABLE employees (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT,
  name VARCHAR(80) COLLATE utf8mb4_unicode_ci NOT NULL,
  superior INT UNSIGNED DEFAULT NULL,
  department INT UNSIGNED NOT NULL,
  started DATE NOT NULL DEFAULT '2000-01-01',
  PRIMARY KEY (id),
  KEY in_department (department, started),
  CONSTRAINT FOREIGN KEY (superior) REFERENCES employees (id) ON DELETE CASCADE,
  CONSTRAINT employee_department FOREIGN KEY (department) REFERENCES departments (id) ON DELETE NO ACTION ON UPDATE NO ACTION
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;

INSERT INTO departments (id, name, head, country, office) VALUES (1, 'Research', 1, 'DE', 1), (2, 'Sales', 3, 'FR', 2);

SET foreign_key_checks = @checks;

INSERT INTO offices VALUES ('DE', 1, 'Köln'), ('FR', 1, 'Lyon'), ('FR', 2, 'Orléans');
INSERT INTO employees (id, name, superior, department) VALUES
  (1, 'Ada', NULL, 1), (2, 'Ben', 1, 1), (3, 'Cleo', NULL, 2), (4, 'Dora', 3, 2), (5, 'Émile', 4, 2);

CREATE TABLE projects (
  code VARCHAR(12) COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  leader INT UNSIGNED REFERENCES employees (id) ON DELETE SET NULL,
  part_of VARCHAR(12) COLLATE utf8mb4_bin DEFAULT NULL REFERENCES projects (code) ON UPDATE CASCADE ON DELETE CASCADE,
  budget DECIMAL(12,2) NOT NULL DEFAULT 0,
  KEY (part_of)
) ENGINE=InnoDB;

CREATE TABLE assignments (
  employee INT UNSIGNED NOT NULL,
  project VARCHAR(12) COLLATE utf8mb4_bin NOT NULL,
  role ENUM('member', 'tester', 'writer') NOT NULL DEFAULT 'member',
  hours INT NOT NULL DEFAULT 0,
  PRIMARY KEY (project, employee),
  FOREIGN KEY (employee) REFERENCES employees (id) ON DELETE CASCADE ON UPDATE CASCADE,
  FOREIGN KEY (project) REFERENCES projects (code) ON DELETE CASCADE ON UPDATE CASCADE
) ENGINE=InnoDB;

INSERT INTO projects VALUES ('p', 1, NULL, 1000), ('p.1', 2, 'p', 250.50), ('q', NULL, NULL, 0);
INSERT INTO assignments VALUES (1, 'p', 'member', 10), (2, 'p', 'tester', 20), (2, 'p.1', 'writer', 5), (5, 'q', 'member', 1);

-- What is refused, and goes on being refused after a change that is refused.
INSERT INTO assignments VALUES (9, 'p', 'member', 0);
INSERT INTO assignments VALUES (1, 'P', 'member', 0);
INSERT INTO employees (name, department) VALUES ('Nobody', 9);
DELETE FROM offices WHERE country = 'DE';
DELETE FROM departments WHERE id = 2;
UPDATE employees SET superior = 77 WHERE id = 2;
DROP TABLE employees;
TRUNCATE TABLE projects;
ALTER TABLE departments DROP KEY where_it_is;
ALTER TABLE employees MODIFY id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT;

-- What cascades, over two levels and within one table.
UPDATE offices SET number = 7 WHERE country = 'FR' AND number = 2;
DELETE FROM employees WHERE id = 4;
DELETE FROM projects WHERE code = 'p.1';
UPDATE projects SET code = 'q2' WHERE code = 'q';
SELECT * FROM departments ORDER BY id;
SELECT * FROM employees ORDER BY id;
SELECT * FROM projects ORDER BY code;
SELECT * FROM assignments ORDER BY project, employee;
