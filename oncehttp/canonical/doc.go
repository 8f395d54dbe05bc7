// Package canonical converts request bodies to a canonical form: two bodies with the same meaning become the same bytes. Use the functions of this
// package as Preset.Body of package oncehttp if clients encode the body again for each attempt, because the bytes of two attempts may then differ.
package canonical
