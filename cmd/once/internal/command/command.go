// Package command is the program "once", with the commands that all builds have. Each noun of the command line is a package in this folder, which
// parses flags and prints. The frame of the command line is package cli, and the acts of an operator are package operate.
package command

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/oncelib/once/cmd/once/internal/archive"
	"github.com/oncelib/once/cmd/once/internal/audit"
	"github.com/oncelib/once/cmd/once/internal/check"
	"github.com/oncelib/once/cmd/once/internal/cli"
	"github.com/oncelib/once/cmd/once/internal/console"
	"github.com/oncelib/once/cmd/once/internal/deadletter"
	"github.com/oncelib/once/cmd/once/internal/demo"
	"github.com/oncelib/once/cmd/once/internal/doctor"
	"github.com/oncelib/once/cmd/once/internal/gateway"
	"github.com/oncelib/once/cmd/once/internal/home"
	"github.com/oncelib/once/cmd/once/internal/inbox"
	"github.com/oncelib/once/cmd/once/internal/journal"
	"github.com/oncelib/once/cmd/once/internal/keys"
	"github.com/oncelib/once/cmd/once/internal/migrate"
	"github.com/oncelib/once/cmd/once/internal/outbox"
	"github.com/oncelib/once/cmd/once/internal/process"
	"github.com/oncelib/once/cmd/once/internal/receipts"
	"github.com/oncelib/once/cmd/once/internal/relay"
	"github.com/oncelib/once/cmd/once/internal/saga"
	"github.com/oncelib/once/cmd/once/internal/storm"
	"github.com/oncelib/once/cmd/once/internal/sweep"
	"github.com/oncelib/once/cmd/once/internal/torture"
	"github.com/oncelib/once/cmd/once/internal/webhook"
)

// Main is the main function of a build. more are further commands of that build.
func Main(more ...cli.Entry) {
	process.Guard()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := New(more...).Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// New is the command line on the terminal. The overview has the nouns in this order. Each of more belongs to the noun that its name begins with.
func New(more ...cli.Entry) *cli.Env {
	m := &cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Nouns: []cli.Noun{
		demo.Noun, demo.Dev, check.Noun, torture.Noun, storm.Noun,
		migrate.Noun, doctor.Noun, cli.Alone(versionEntry, cli.GroupSetUp),
		keys.Noun, saga.Noun, outbox.Noun, inbox.Noun, deadletter.Noun, webhook.Noun, home.Noun, receipts.Noun, journal.Noun, audit.Noun, archive.Noun, console.Noun,
		gateway.Noun, relay.Noun, sweep.Noun,
	}}
	for i, n := range m.Nouns {
		for _, e := range more {
			if noun, _, _ := strings.Cut(e.Name, " "); noun == n.Name {
				m.Nouns[i].Entries = append(slices.Clip(m.Nouns[i].Entries), e)
			}
		}
	}
	return m
}
