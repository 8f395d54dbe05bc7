package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// directory is the temporary home of one server. It disappears with the process
// that made it, also when that process is killed.
type directory struct {
	path    string
	leash   *os.File // write end of the janitor's standard input
	janitor *process
}

// janitorScript waits for a word or for the end of its input. A word means that
// the owner cleaned up itself; the end without a word means that the owner died.
// Then it makes sure that the server is gone (a second line of defence behind the
// parent-death signal; the working directory proves that the process number still
// means that server) and removes the directory. It retries,
// because a dying server may still be writing into it. The data may be on a [Disk].
const janitorScript = `
trap '' HUP INT QUIT TERM
read -r word
[ "$word" = done ] && exit 0
server=$(head -q -n 1 "$1"/data/*.pid 2>/dev/null)
alive() { [ -n "$server" ] && [ "$(readlink "/proc/$server/cwd")" = "$1/data" ]; }
if alive "$1"; then
	kill -QUIT "$server"
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do alive "$1" || break; sleep 0.5; done
	alive "$1" && kill -KILL "$server"
fi
umount -l -- "$1/data" 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do
	rm -rf -- "$1" 2>/dev/null && exit 0
	sleep 0.5
done
`

// newDirectory makes a directory that who owns.
func newDirectory(prefix string, who identity) (*directory, error) {
	path, err := os.MkdirTemp(shortTempDir(), prefix)
	if err != nil {
		return nil, fmt.Errorf("testenv: temporary directory: %w", err)
	}
	// The janitor compares with what the kernel calls the directory.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("testenv: temporary directory: %w", err)
	}
	if err := who.own(path); err != nil {
		return nil, errors.Join(fmt.Errorf("testenv: hand %s to %s: %w", path, who.name, err), os.RemoveAll(path))
	}
	input, leash, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	defer input.Close()
	cmd := exec.Command("/bin/sh", "-c", janitorScript, "once-janitor", path) //nolint:noctx // it outlives every context
	cmd.Dir = "/"
	cmd.Stdin = input
	// The janitor is the one process that must survive us: no death signal.
	janitor, err := startProcess(cmd, identity{}, syscall.Signal(0), nil)
	if err != nil {
		return nil, errors.Join(err, leash.Close(), os.RemoveAll(path))
	}
	return &directory{path: path, leash: leash, janitor: janitor}, nil
}

// remove deletes the directory and dismisses the janitor.
func (d *directory) remove() error {
	err := os.RemoveAll(d.path)
	if err == nil {
		// A janitor that is not told, or is gone, finds nothing to remove.
		_, err = d.leash.WriteString("done\n")
	}
	err = errors.Join(err, d.leash.Close())
	<-d.janitor.done
	return err
}

// shortTempDir avoids a long TMPDIR: the path of a Unix socket has at most 107
// bytes.
func shortTempDir() string {
	const longest = 107 - len("/once-postgres-1234567890/socket/.s.PGSQL.12345")
	if dir := os.TempDir(); len(dir) <= longest {
		return dir
	}
	return "/tmp"
}
