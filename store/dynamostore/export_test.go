package dynamostore

// ForgetTime makes s ask for the time of the service, which a test has moved.
func (s *Store) ForgetTime() {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	s.clock.best, s.clock.before = sample{}, sample{}
}
