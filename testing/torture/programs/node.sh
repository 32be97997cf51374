exec node work.js
