-- From this version on MySQL and MariaDB find what is unfinished by its state. There is an index of that here.
select 1;
