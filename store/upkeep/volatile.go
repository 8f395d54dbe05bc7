package upkeep

// Volatile is a store that may lose confirmed writes. A store without this method loses nothing that its database has committed.
type Volatile interface {
	// Volatile says when, and with which consequences, in a sentence for people: doctor, console and documents of routes show it.
	Volatile() string
}
