package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncelib/once/cmd/once/internal/command"
	"github.com/oncelib/once/internal/testenv"
)

const (
	rulesDir    = "../../observability/prometheus"
	runbooksDir = "../../docs/runbooks"
)

func text(t *testing.T, elements ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// firsts returns the first group of each match of expr in text.
func firsts(expr, text string) (found []string) {
	for _, m := range regexp.MustCompile(expr).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

// TestRulesAndAlerts: promtool finds that each recording rule yields what it should, and that each alert fires
// and does not fire.
func TestRulesAndAlerts(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "promtool")
	promtool, err := testenv.Binary("promtool")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"check", "rules", "--lint-fatal", "rules.yml", "alerts.yml"}, {"test", "rules", "rules_test.yml", "alerts_test.yml"}} {
		cmd := exec.CommandContext(ctx, promtool, args...)
		cmd.Dir = rulesDir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	tests := text(t, rulesDir, "alerts_test.yml")
	for _, alert := range firsts(`- alert: (\w+)`, text(t, rulesDir, "alerts.yml")) {
		if !strings.Contains(tests, "- name: "+alert+" fires") || !strings.Contains(tests, "- name: "+alert+" does not fire") {
			t.Errorf("%s: no test of that it fires, or of that it does not", alert)
		}
	}
	tested, listed := text(t, rulesDir, "rules_test.yml"), text(t, rulesDir, "..", "README.md")
	rules := firsts(`- record: ([\w:]+)`, text(t, rulesDir, "rules.yml"))
	for _, rule := range rules {
		if !strings.Contains(tested, "round("+rule+",") || !strings.Contains(listed, "| `"+rule+"` |") {
			t.Errorf("%s: no test, or not in the list", rule)
		}
		if !regexp.MustCompile(`^(job|job_operation):once_[a-z_]+:([a-z0-9_]+_)?(rate|increase)5m$`).MatchString(rule) {
			t.Errorf("%s is not level:metric:operations", rule)
		}
	}
	if len(rules) < 6 {
		t.Errorf("only %d rules", len(rules))
	}
}

// TestEveryAlertHasARunbook: each alert has a severity, a summary, a description and a page, which the list of pages
// names, and there is no page too many.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	_, alerts, _ := strings.Cut(text(t, rulesDir, "alerts.yml"), "groups:")
	var want []string
	for _, a := range strings.Split(alerts, "- alert: ")[1:] {
		name, _, _ := strings.Cut(a, "\n")
		want = append(want, name)
		for _, field := range []string{"severity: critical|severity: warning", `summary: ".+"`, `description: ".+"`, "runbook_url: https://github.com/oncelib/once/blob/main/docs/runbooks/" + name + `\.md\n`} {
			if !regexp.MustCompile(field).MatchString(a) {
				t.Errorf("%s has no %s", name, field)
			}
		}
		page := text(t, runbooksDir, name+".md")
		for _, part := range []string{"# " + name + "\n\nThe alert fires when ", "\n## What the alert means\n", "\n## What to look at\n", "\n## What to do\n", "\n## When to wake an engineer\n"} {
			if !strings.Contains(page, part) {
				t.Errorf("%s.md has no %q", name, part)
			}
		}
		if !strings.Contains(text(t, runbooksDir, "README.md"), "["+name+"]("+name+".md)") {
			t.Errorf("%s is not in the list of pages", name)
		}
	}
	if len(want) < 13 {
		t.Errorf("only %d alerts", len(want))
	}
	pages, err := filepath.Glob(filepath.Join(runbooksDir, "Once*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := strings.TrimSuffix(filepath.Base(page), ".md"); !slices.Contains(want, name) {
			t.Errorf("%s is the page of no alert", name)
		}
	}
}

// TestRunbooksNameCommandsThatExist: each command on a page can be run: the command and its flags exist. And each
// link leads somewhere.
func TestRunbooksNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(runbooksDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, page := range pages {
		content := text(t, page)
		lines := append(firsts("(?m)^once (.+)$", content), firsts("`once ([^`]+)`", content)...)
		for _, line := range lines {
			commands++
			args := strings.Fields(line)
			cmd, rest, err := command.New().Root().Find(args)
			if err != nil || !cmd.Runnable() || cmd.HasSubCommands() && cmd.Name() != "demo" {
				t.Errorf("%s: there is no command once %s", page, line)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: once %s: %v", page, line, err)
			}
			if cmd.Flags().NArg() > len(strings.Fields(cmd.Use))-1 {
				t.Errorf("%s: once %s has an argument too many", page, line)
			}
		}
		for _, to := range firsts(`\]\(([^)#:]+)\)`, content) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), to)); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if commands < 30 {
		t.Errorf("only %d commands", commands)
	}
}
