package upkeep

// Volatile is a store that may lose confirmed writes. A store without the method Volatile never loses a write
// that its database has confirmed.
type Volatile interface {
	// Volatile returns a sentence for people that says when writes may be lost, and with which consequences.
	// The command "once doctor", the console and the documentation of routes show this sentence.
	Volatile() string
}
