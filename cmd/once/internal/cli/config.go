package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/oncelib/once/internal/base/words"
	"github.com/spf13/pflag"
)

// configFile is read if it exists in the working directory and no other file is named.
const configFile = "once.yaml"

// settings are the flags for which the file may have defaults, by their names.
type settings struct {
	DB      string `yaml:"db"`
	To      string `yaml:"to"`
	Output  string `yaml:"output"`
	Timeout string `yaml:"timeout"`
	By      string `yaml:"by"`
	KeyFile string `yaml:"key-file"`

	Gateway any `yaml:"gateway"` // of once gateway, which reads it itself
}

// values are the settings by the names of their flags.
func (s settings) values() map[string]string {
	return map[string]string{"db": s.DB, "to": s.To, "output": s.Output, "timeout": s.Timeout, "by": s.By, "key-file": s.KeyFile}
}

// The annotations of a flag that configure reads.
const (
	fromEnv = "once_env"    // variables of the environment, the first that is set counts
	never   = "once_never"  // neither the environment nor the file set it
	without = "once_unless" // the same, if one of these flags is given
)

// FromEnv lets flags read variables of the environment.
func FromEnv(fs *pflag.FlagSet, flag string, variables ...string) {
	annotate(fs, flag, fromEnv, variables)
}

// OnCommandLine allows a flag only on the command line: a demo must never find the database of a service by itself.
func OnCommandLine(fs *pflag.FlagSet, flag string) { annotate(fs, flag, never, nil) }

// Unless makes configure ignore the environment and the file for a flag if the command line has one of the flags others, which set the same value in
// another way.
func Unless(fs *pflag.FlagSet, flag string, others ...string) { annotate(fs, flag, without, others) }

func annotate(fs *pflag.FlagSet, flag, key string, values []string) {
	if err := fs.SetAnnotation(flag, key, values); err != nil {
		panic(err) // a programming mistake: no such flag exists
	}
}

// configure sets flags that are not on the command line: from the environment, or else from the file.
func (m *Env) configure(flags *pflag.FlagSet) (err error) {
	s, name, err := m.settings(flags)
	if err != nil {
		return err
	}
	file := s.values()
	flags.VisitAll(func(f *pflag.Flag) {
		if _, isNever := f.Annotations[never]; err != nil || isNever || f.Changed || slices.ContainsFunc(f.Annotations[without], flags.Changed) {
			return
		}
		value, from := file[f.Name], name
		for _, variable := range f.Annotations[fromEnv] {
			if v := m.getenv(variable); v != "" {
				value, from = v, variable
				break
			}
		}
		if value == "" {
			return
		}
		if e := flags.Set(f.Name, value); e != nil {
			what, try := words.Advice(errors.Unwrap(e).Error())
			err = Usage(fmt.Sprintf("%s: --%s: %s", from, f.Name, what), words.Either(try != "", try, "once --help"))
		}
	})
	return err
}

// fileName is the name of the file, and whether the user has named it.
func (m *Env) fileName(flags *pflag.FlagSet) (name string, isNamed bool, err error) {
	name, err = flags.GetString("config")
	if name == "" {
		name = m.getenv("ONCE_CONFIG")
	}
	return words.Either(name != "", name, configFile), name != "", err
}

// ConfigFile is the name of once.yaml, or "" if it does not exist. Run of a command calls it, with its flags.
func (m *Env) ConfigFile(flags *pflag.FlagSet) string {
	name, isNamed, err := m.fileName(flags)
	if err != nil {
		return ""
	}
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) && !isNamed {
		return ""
	}
	return name
}

// settings reads the file. A named file must exist.
func (m *Env) settings(flags *pflag.FlagSet) (s settings, name string, err error) {
	name, isNamed, err := m.fileName(flags)
	if err != nil {
		return s, "", err
	}
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !isNamed:
		return s, name, nil
	case err != nil:
		return s, name, Usage(err.Error(), "--config with a readable file")
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return s, name, Usage(fmt.Sprintf("the file %s must contain only default values of flags: %s", name, yaml.FormatError(err, false, false)), "write lines such as db: sqlite:app.db; a line begins with db, to, output, timeout, by or key-file")
	}
	return s, name, nil
}

// GatewayStore is the default store of a gateway.
const GatewayStore = "sqlite:once-gateway.db"

// namesStore adds to the error for a missing --db which store the gateway in the file has. This store is not taken as the default, because the
// same file may belong to a service with its own database.
func (m *Env) namesStore(flags *pflag.FlagSet, err error) error {
	if !errors.Is(err, errNoDatabase) {
		return err
	}
	s, name, e := m.settings(flags)
	part, isMap := s.Gateway.(map[string]any)
	if e != nil || !isMap {
		return err
	}
	store, _ := part["store"].(string)
	src, e := ParseSource(words.Either(store != "", store, GatewayStore))
	if e != nil || store == "receipt" {
		return err
	}
	return Usage(errNoDatabase.what, fmt.Sprintf("--db %s, the value of \"store\" in the section \"gateway\" of the file %s", src.Paste, name))
}
