package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// identity is the user that servers run as. The zero value means the user of this
// process.
type identity struct {
	name     string
	uid, gid uint32
}

// serverIdentity returns the user that runs the servers. PostgreSQL, MariaDB and PgBouncer refuse to run as root, so root lets
// an unprivileged user run them.
func serverIdentity() (identity, error) {
	if os.Geteuid() != 0 {
		return identity{}, nil
	}
	var failures []error
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			failures = append(failures, err)
			continue
		}
		return identity{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return identity{}, fmt.Errorf("testenv: database servers refuse to run as root and there is no user to hand them to: %w."+
		" Try: useradd --system postgres", errors.Join(failures...))
}

// own makes a file or directory belong to the identity.
func (who identity) own(path string) error {
	if who == (identity{}) {
		return nil
	}
	return os.Chown(path, int(who.uid), int(who.gid))
}
