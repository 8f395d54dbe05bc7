module github.com/oncelib/once/examples/shop

go 1.25.0

require (
	github.com/jackc/pgx/v5 v5.12.0
	github.com/nats-io/nats-server/v2 v2.14.3
	github.com/nats-io/nats.go v1.53.1
	github.com/oncelib/once v0.0.0
	github.com/oncelib/once/broker/natsbroker v0.0.0
	github.com/oncelib/once/onceprom v0.0.0
	github.com/prometheus/client_golang v1.24.1
	modernc.org/sqlite v1.59.0
)

replace (
	github.com/oncelib/once => ../..
	github.com/oncelib/once/broker/natsbroker => ../../broker/natsbroker
	github.com/oncelib/once/onceprom => ../../onceprom
)
