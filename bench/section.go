package main

import (
	"fmt"
	"slices"
	"strings"
)

// sections can be chosen with -only.
var sections = []string{"trips", "local1", "local16", "network16", "serializable", "optimistic", "batch", "growth", "memory", "sqlite", "group", "mysql", "sweep", "cache", "outbox", "relay", "earlier", "isolation", "inbox", "lease", "saga", "webhook", "gateway", "home", "redis", "shared", "telemetry", "pool"}

func (b *bench) choose(only string) error {
	if only == "" {
		return nil
	}
	b.only = map[string]bool{}
	for s := range strings.SplitSeq(only, ",") {
		if !slices.Contains(sections, s) {
			return fmt.Errorf("no section %q. Try: -only %s", s, strings.Join(sections, ","))
		}
		b.only[s] = true
	}
	return nil
}
