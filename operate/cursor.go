package operate

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// cursor is the position after which a list continues: the operation with this scope and key.
type cursor struct{ scope, key string }

var errCursor = errors.New("operate: the cursor of the page is not valid. Try: copy the complete cursor that the previous page has returned")

// String returns the cursor as one word that encodes the length of the scope, the scope, and the key.
func (c cursor) String() string {
	b := binary.AppendUvarint(nil, uint64(len(c.scope)))
	b = append(append(b, c.scope...), c.key...)
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseCursor(s string) (cursor, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return cursor{}, errCursor
	}
	n, read := binary.Uvarint(b)
	if read <= 0 || n > uint64(len(b)-read) {
		return cursor{}, errCursor
	}
	b = b[read:]
	c := cursor{string(b[:n]), string(b[n:])}
	if c.String() != s { // a number can be encoded in several ways, and only one of them is a cursor
		return cursor{}, errCursor
	}
	return c, nil
}
