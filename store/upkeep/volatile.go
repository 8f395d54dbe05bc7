package upkeep

// Volatile is a store that may lose what it has confirmed. A store without it loses nothing that its database has committed.
type Volatile interface {
	// Volatile says when, and what follows, in a sentence for people: doctor, console and documents of routes show it.
	Volatile() string
}
