package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// recent is what a position keeps of the last messages of its key: the Seq of the newest one in 8 bytes, then 8 bytes of the hash of
// each ID, the newest first. Zeros are a message that is not known: it was skipped, or an older program has applied it.
type recent []byte

const (
	recentIDs = 8 // how many are kept
	idSize    = 8
)

func idHash(id string) []byte {
	h := sha256.Sum256([]byte(id))
	return h[:idSize]
}

// with returns r after the message seq with an ID.
func (r recent) with(seq int64, id string) recent {
	list := append(binary.BigEndian.AppendUint64(nil, uint64(seq)), idHash(id)...) // a Seq is not negative
	if newest, ids := r.split(); newest < seq && seq-newest < recentIDs {
		list = append(append(list, make([]byte, idSize*(seq-newest-1))...), ids...)
	}
	return list[:min(len(list), idSize*(1+recentIDs))]
}

// other reports whether the message seq is known to have another ID.
func (r recent) other(seq int64, id string) bool {
	newest, ids := r.split()
	back := newest - seq
	if seq < 1 || back < 0 || back >= int64(len(ids)/idSize) {
		return false
	}
	have := ids[back*idSize : (back+1)*idSize]
	return !bytes.Equal(have, make([]byte, idSize)) && !bytes.Equal(have, idHash(id))
}

func (r recent) split() (newest int64, ids []byte) {
	if len(r) < idSize {
		return 0, nil
	}
	return int64(binary.BigEndian.Uint64(r)), r[idSize:] // with has written it
}
