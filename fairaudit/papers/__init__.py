"""What the papers need beside their methods: settings, published forms, an ablation."""
