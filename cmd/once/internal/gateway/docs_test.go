package gateway

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/spf13/pflag"
)

const root = "../../../.."

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSettingsAreDocumented: the page has every setting and every flag, and its files are those that are tested.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	text := page(t, "docs/gateway-daemon.md")
	if lines := strings.Count(text, "\n"); lines > 200 {
		t.Errorf("%d lines", lines)
	}
	for _, s := range []any{config{}, principal{}, files{}, route{}, databaseWait{}} {
		for i := range reflect.TypeOf(s).NumField() {
			if name := reflect.TypeOf(s).Field(i).Tag.Get("yaml"); !strings.Contains(text, name) {
				t.Errorf("the setting %s is missing", name)
			}
		}
	}
	knownFlags(t).VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(text, "--"+f.Name) {
			t.Errorf("the flag --%s is missing", f.Name)
		}
	})
	for _, file := range []string{smallest, example} {
		if !strings.Contains(text, "```yaml\n"+file+"```\n") {
			t.Errorf("the page lacks the file that is tested:\n%s", file)
		}
	}
}

func knownFlags(t *testing.T) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("gateway", pflag.ContinueOnError)
	fs.String("config", "", "")
	runEntry.Make().Flags(fs)
	return fs
}

// TestManifestsParseAndNameKnownFlags: what is deployed parses, names flags that there are, and has a file that works.
func TestManifestsParseAndNameKnownFlags(t *testing.T) {
	t.Parallel()
	manifests := page(t, "deploy/sidecar.yaml")
	checkedFiles, containers := 0, 0
	for docs := yaml.NewDecoder(strings.NewReader(manifests)); ; {
		var doc map[string]any
		err := docs.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(yaml.FormatError(err, false, true))
		}
		if data, ok := doc["data"].(map[string]any); ok {
			text, _ := data["once.yaml"].(string)
			if _, err := checked(file(t, text), flags{}); err != nil {
				t.Error(err)
			}
			checkedFiles++
		}
		for _, c := range initContainers(doc) {
			if c["restartPolicy"] != "Always" {
				t.Errorf("no sidecar: %v", c)
			}
			var args []string
			for _, a := range c["args"].([]any) {
				args = append(args, a.(string))
			}
			if err := knownFlags(t).Parse(args); err != nil || args[0] != "gateway" {
				t.Errorf("%q: %v", args, err)
			}
			containers++
		}
	}
	if checkedFiles != 1 || containers != 1 {
		t.Errorf("%d files and %d containers", checkedFiles, containers)
	}
	_, cmd, found := strings.Cut(page(t, "deploy/Dockerfile"), "\nCMD ")
	var args []string
	if err := yaml.Unmarshal(bytes.TrimSpace([]byte(cmd)), &args); err != nil || !found {
		t.Fatal(err)
	}
	if err := knownFlags(t).Parse(args); err != nil || args[0] != "gateway" {
		t.Errorf("%q: %v", args, err)
	}
}

// initContainers are those of a deployment.
func initContainers(doc map[string]any) (list []map[string]any) {
	value := any(doc)
	for _, name := range []string{"spec", "template", "spec", "initContainers"} {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	all, _ := value.([]any)
	for _, c := range all {
		list = append(list, c.(map[string]any))
	}
	return list
}
