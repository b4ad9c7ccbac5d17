package schema

import (
	"crypto/rand"
	"encoding/hex"
	"errors"

	"github.com/hare-go/hare/hare/backend"
)

// NewUUID is a random UUID (version 4).
func NewUUID() backend.UUID {
	var id backend.UUID
	rand.Read(id[:]) // never fails: the program ends where there is no randomness
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

var errUUID = errors.New("a UUID is 32 hexadecimal digits, with or without the four hyphens")

// parseUUID reads both usual spellings.
func parseUUID(text string) (backend.UUID, error) {
	var id backend.UUID
	switch len(text) {
	case 32:
	case 36:
		if text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
			return id, errUUID
		}
		text = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	default:
		return id, errUUID
	}
	if _, err := hex.Decode(id[:], []byte(text)); err != nil {
		return backend.UUID{}, errUUID
	}
	return id, nil
}

// formatUUID writes the usual spelling, with hyphens.
func formatUUID(id backend.UUID) string {
	var text [36]byte
	hex.Encode(text[:8], id[:4])
	hex.Encode(text[9:13], id[4:6])
	hex.Encode(text[14:18], id[6:8])
	hex.Encode(text[19:23], id[8:10])
	hex.Encode(text[24:], id[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
