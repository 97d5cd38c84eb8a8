"""What the papers need: settings, published forms, and whether their claims hold here."""
