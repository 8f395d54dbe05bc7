package testenv

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// fromTemplate makes the data directory dir by running program, or by copying what the same program has made before. On a busy
// machine a copy takes a fifth of the time, and every package of the tests starts servers. at returns the program's arguments
// for a directory. The templates are in the user's cache directory. Without such a directory, there are no templates.
func fromTemplate(ctx context.Context, who identity, dir, program string, at func(dir string) []string) error {
	template, none := templateDir(program, at("DATA"))
	if none == nil && copyTree(template, dir, who) == nil {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil { // removes an incomplete copy
		return err
	}
	if _, err := runTool(ctx, who, "", program, at(dir)...); err != nil {
		return err
	}
	if none == nil {
		_ = keepTemplate(dir, template) // the next server works without a template as well
	}
	return nil
}

// templateDir returns the directory for what a program makes with its arguments. Another version of the program has another
// directory.
func templateDir(program string, args []string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	h := sha256.Sum256(fmt.Append(nil, path, info.ModTime().UnixNano(), info.Size(), strings.Join(args, "\x00")))
	return filepath.Join(cache, "once-testenv", filepath.Base(path)+"-"+hex.EncodeToString(h[:8])), nil
}

// keepTemplate copies dir. Other processes see only the complete copy.
func keepTemplate(dir, template string) error {
	if err := os.MkdirAll(filepath.Dir(template), 0o700); err != nil {
		return err
	}
	part, err := os.MkdirTemp(filepath.Dir(template), "part-")
	if err != nil {
		return err
	}
	err = copyTree(dir, filepath.Join(part, "data"), identity{})
	if err == nil {
		err = os.Rename(filepath.Join(part, "data"), template) // fails if another process was faster
	}
	return errors.Join(err, os.RemoveAll(part))
}

// copyTree copies a directory of plain files, and makes the copy belong to who.
func copyTree(from, to string, who identity) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			err = copyFile(path, target, info.Mode().Perm())
		default:
			err = fmt.Errorf("testenv: %s is neither a file nor a directory", path)
		}
		if err != nil {
			return err
		}
		return who.own(target)
	})
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
