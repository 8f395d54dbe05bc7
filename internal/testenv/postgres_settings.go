package testenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// configure appends the settings. The last setting of a name takes precedence.
func (p *Postgres) configure(config PostgresConfig) error {
	path := filepath.Join(p.DataDir(), "postgresql.conf")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(p.settings(config))
	return errors.Join(err, file.Close())
}

func (p *Postgres) settings(config PostgresConfig) string {
	settings := map[string]string{
		"listen_addresses":        loopback,
		"unix_socket_directories": p.SocketDir(),
		"max_connections":         "300",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] ",
	}
	for name, value := range config.Settings {
		settings[strings.ToLower(name)] = value
	}
	var text strings.Builder
	text.WriteString("\n# testenv\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	return text.String()
}

// Set changes a setting of the running server for all databases, and returns when new sessions see the change. It has no effect on
// settings that need a restart: see Restart.
func (p *Postgres) Set(ctx context.Context, name, value string) error {
	quoted := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	before, err := p.Query(ctx, superuser, fmt.Sprintf("alter system set %s = %s; select pg_conf_load_time(); select pg_reload_conf()", name, quoted))
	if err != nil {
		return err
	}
	before, _, _ = strings.Cut(before, "\n")
	return p.until(ctx, "select pg_conf_load_time() > '"+before+"'")
}

// until asks a question until the answer is true, because replication does not signal its progress.
func (p *Postgres) until(ctx context.Context, question string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		answer, err := p.Query(ctx, superuser, question)
		if err != nil {
			return fmt.Errorf("%s: %w", question, err)
		}
		if answer == "t" {
			return nil
		}
	}
}
