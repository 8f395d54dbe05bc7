package saga

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/operate"
	"github.com/oncelib/once/saga"
)

var listEntry = cli.Entry{
	Name: "saga list", Brief: "list sagas and the step that each is at",
	Help: `Lists sagas by tenant and key, with the step that each is at. --state stuck lists those that wait for a
person. --since and --before look at when a saga was started (one that has ended: when that was), and take a
time (2026-01-31T12:00:00Z) or how long ago that is by the database's clock (90m, 72h).

Sagas that have ended are listed until their record expires (saga.Config.Retain).`,
	Make: func() cli.Runner { return new(list) },
}

type list struct {
	db, tenant string
	fs         *pflag.FlagSet
	output     cli.Form
	between    cli.Between
	filter     operate.SagaFilter
}

func (c *list) Flags(fs *pflag.FlagSet) {
	c.fs = fs
	cli.DBFlag(fs, &c.db)
	fs.StringVar(&c.filter.State, "state", "", "only in this `STATE`: stuck, waiting, running, completed or compensated")
	fs.StringVar(&c.filter.Definition, "saga", "", "only of the definition with this `NAME`")
	fs.StringVar(&c.tenant, "tenant", "", "only of this `TENANT`")
	c.between.Flags(fs)
	cli.WindowFlags(fs, &c.filter.Window)
	c.output.Flag(fs)
}

func (c *list) Run(ctx context.Context, m *cli.Env, _ []string) error {
	if err := cli.CheckLimit(c.filter.Limit); err != nil {
		return err
	}
	switch c.filter.State {
	case "", saga.StateStuck, saga.StateWaiting, saga.StateRunning, saga.StateCompleted, saga.StateCompensated:
	default:
		return cli.Usage(fmt.Sprintf("there is no state %q", c.filter.State), "--state stuck, waiting, running, completed, or compensated")
	}
	if c.fs.Changed("tenant") {
		c.filter.Tenant = &c.tenant
	}
	db, err := m.Open(ctx, c.db, operate.Config{})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := c.between.Read(ctx, db, &c.filter.Since, &c.filter.Before); err != nil {
		return err
	}
	p, err := db.Sagas.List(ctx, c.filter)
	if err != nil {
		return refused(db, "read", err)
	}
	return cli.ShowPage(m, c.output, p, "such sagas", printList)
}
