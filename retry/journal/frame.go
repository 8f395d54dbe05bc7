package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A file begins with a header:
//
//	magic (16) | salt (16) | base (8) | sum of these (4)
//
// The salt is random, and part of all sums, so that bytes inside of a body cannot look like a frame. The file was base bytes long, and flushed,
// before it got its name. Frames follow, one for each record:
//
//	length (4) | durable (8) | sum of the head (4) | sum of the payload (4) | payload
//
// durable is how much of the file had been flushed when the frame was written. Damage before the largest value of durable is in flushed frames, on
// which a caller may have relied. After that position a crash may have left anything: even a frame of which only a part has reached the disk,
// followed by complete frames.
//
// A frame without a payload is a flush frame. The flush frame of a batch is written after the batch was flushed, and before the callers of the batch
// return, so that damage in the last batch can be distinguished from a torn write. A flush frame cannot be written in the same write as its batch,
// because the disk may have the end of a write and not its beginning. A flush frame has no flush of its own. If the power fails before the system
// writes the flush frame to the disk, or if the flush frame is damaged as well, a damaged batch looks like a torn write.
const (
	magic      = "once journal 1\n\x00"
	headerSize = 16 + 16 + 8 + 4
	headSize   = 4 + 8 + 4 + 4
	maxPayload = 64 << 20
)

type salt [16]byte

func newSalt() (s salt) {
	rand.Read(s[:]) // crypto/rand never returns an error
	return s
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of b at an offset of a file with this salt. The offset is a part of the sum, so that a moved frame is not valid.
func (s salt) sum(offset int64, b []byte) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], uint64(offset))
	c := crc32.Update(0, castagnoli, s[:])
	c = crc32.Update(c, castagnoli, at[:])
	return crc32.Update(c, castagnoli, b)
}

func (s salt) header(base int64) []byte {
	b := append([]byte(magic), s[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(base))
	return binary.BigEndian.AppendUint32(b, s.sum(0, b))
}

// frame appends a frame to b. The parameter offset is the position of the frame in the file.
func (s salt) frame(b []byte, offset, durable int64, payload []byte) []byte {
	begin := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.BigEndian.AppendUint64(b, uint64(durable))
	b = binary.BigEndian.AppendUint32(b, s.sum(offset, b[begin:]))
	b = binary.BigEndian.AppendUint32(b, s.sum(offset+1, payload))
	return append(b, payload...)
}

// frameAt returns the frame at an offset of a file, and the offset of the next frame. The result ok is false if no valid frame begins there.
func (s salt) frameAt(file []byte, offset int64) (payload []byte, durable, next int64, ok bool) {
	rest := file[offset:]
	if len(rest) < headSize {
		return nil, 0, 0, false
	}
	n := int64(binary.BigEndian.Uint32(rest))
	if n > maxPayload || n > int64(len(rest)-headSize) || binary.BigEndian.Uint32(rest[12:]) != s.sum(offset, rest[:12]) {
		return nil, 0, 0, false
	}
	payload = rest[headSize : headSize+n]
	if binary.BigEndian.Uint32(rest[16:]) != s.sum(offset+1, payload) {
		return nil, 0, 0, false
	}
	return payload, int64(binary.BigEndian.Uint64(rest[4:])), offset + headSize + n, true
}

// Damage describes the part of a file that [Open] has dropped because a crash had left this part
// incomplete.
type Damage struct {
	Offset int64 // the offset of the first dropped record in the file, in bytes
	Bytes  int64 // the length of the dropped part, in bytes
}

var errNone = errors.New("journal: the file is not a journal, or its beginning is damaged. Try: check the path, or use a copy of the journal")

// parse calls apply with the payload of each frame of a file. If a crash can have caused the damage, parse drops the damaged part. Otherwise it
// returns an error.
func parse(file []byte, apply func(payload []byte) error) (damage Damage, err error) {
	if len(file) == 0 {
		return damage, nil // mktemp creates an empty file
	}
	if len(file) >= len("once journal ") && bytes.HasPrefix(file, []byte("once journal ")) && !bytes.HasPrefix(file, []byte(magic)) {
		return damage, fmt.Errorf("journal: the file has the format of another version of once: %q. Try: the release of once that has written the file", file[:min(len(file), 14)])
	}
	if len(file) < headerSize || !bytes.HasPrefix(file, []byte(magic)) {
		return damage, errNone
	}
	var s salt
	copy(s[:], file[16:])
	if binary.BigEndian.Uint32(file[headerSize-4:]) != s.sum(0, file[:headerSize-4]) {
		return damage, errNone
	}
	flushed := int64(binary.BigEndian.Uint64(file[32:]))
	var whole [][]byte
	for at := int64(headerSize); at < int64(len(file)); {
		payload, durable, next, ok := s.frameAt(file, at)
		if ok {
			flushed, at = max(flushed, durable), next
			// A flush frame has no record.
			if len(payload) > 0 {
				whole = append(whole, payload)
			}
			continue
		}
		if damage.Bytes == 0 {
			damage.Offset = at
		}
		// After damage, the search for the next valid frame goes byte by byte, because the length of the damaged frame is unknown.
		begin := at
		for ok = false; !ok && at < int64(len(file)); {
			at++
			_, _, _, ok = s.frameAt(file, at)
		}
		damage.Bytes += at - begin
	}
	// A crash cannot damage flushed records, so intents may be lost, and a person must decide.
	if damage.Bytes > 0 && damage.Offset < flushed || flushed > int64(len(file)) {
		return damage, fmt.Errorf("journal: the file is damaged at byte %d, in a part that was already on the disk, so intents may be missing. Try: use a copy of the file; or move the file away, and ask the servers for the outcomes of its intents", min(damage.Offset, int64(len(file))))
	}
	for _, payload := range whole {
		if err := apply(payload); err != nil {
			return damage, err
		}
	}
	return damage, nil
}
