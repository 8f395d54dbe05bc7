package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
)

// acknowledge writes down an answer that was given, as the outside world would
// remember it: when it returns, the answer survives any crash.
func acknowledge(path string, a answer) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err == nil {
		_, err = file.Write(append(text, '\n'))
	}
	return errors.Join(err, file.Sync(), file.Close())
}

// acknowledged returns the answer that was given, if there was one.
func acknowledged(path string) (a answer, ok bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	// A line that is torn was not acknowledged.
	line, whole := bytes.CutSuffix(text, []byte("\n"))
	if !whole {
		return a, false, nil
	}
	return a, true, json.Unmarshal(line, &a)
}
