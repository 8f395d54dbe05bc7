package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
)

// recent holds the last messages of a key: the Seq of the newest message in 8 bytes, then the first 8 bytes of
// the hash of each ID, with the newest ID first. Zeros mean that the ID is not known, because the message was
// skipped, or because an older release of this program has applied it.
type recent []byte

const (
	recentIDs = 8 // the number of IDs that are kept
	idSize    = 8
)

func idHash(id string) []byte {
	h := sha256.Sum256([]byte(id))
	return h[:idSize]
}

// with returns r with the message seq added as the newest one.
func (r recent) with(seq int64, id string) recent {
	list := append(binary.BigEndian.AppendUint64(nil, uint64(seq)), idHash(id)...) // a Seq is not negative
	// The skipped numbers between both messages get zeros. If too many are skipped, no old ID can stay.
	if newest, ids := r.split(); newest < seq && seq-newest < recentIDs {
		list = append(append(list, make([]byte, idSize*(seq-newest-1))...), ids...)
	}
	return list[:min(len(list), idSize*(1+recentIDs))]
}

// recentAt returns the value of a key that begins after the message seq: it has a Seq, but no ID.
func recentAt(seq int64) recent { return binary.BigEndian.AppendUint64(nil, uint64(seq)) } // a Seq is not negative

// other reports whether the message seq is known to have had another ID.
func (r recent) other(seq int64, id string) bool {
	newest, ids := r.split()
	back := newest - seq
	if seq < 1 || back < 0 || back >= int64(len(ids)/idSize) {
		return false
	}
	have := ids[back*idSize : (back+1)*idSize]
	return !bytes.Equal(have, make([]byte, idSize)) && !bytes.Equal(have, idHash(id))
}

// split returns the Seq of the newest message, and the hashes of the IDs.
func (r recent) split() (newest int64, ids []byte) {
	if len(r) < idSize {
		return 0, nil
	}
	return int64(binary.BigEndian.Uint64(r)), r[idSize:] // the value is a Seq that with has written, so it fits
}
