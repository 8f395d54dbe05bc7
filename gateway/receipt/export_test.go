package receipt

// ParseAnswer is parseAnswer.
var ParseAnswer = parseAnswer
